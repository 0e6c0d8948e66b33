"""The minify step: PyTorch's own minifier, run, read and checked."""
