"""The profile step: op tables, chrome traces and the kernels of output_code.py."""
