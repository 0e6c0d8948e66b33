"""The roofline step: what this machine can do at most, and what of it the fused pattern and the linear layers reach."""
