"""The benchmark step: samples of interleaved arms from fresh processes."""
