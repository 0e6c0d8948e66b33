"""The debug step: artefacts of TORCH_COMPILE_DEBUG, the backend ladder, injected faults."""
