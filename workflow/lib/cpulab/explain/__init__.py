"""Explains one function of a user: which component of torch.compile is at fault, of what kind, and how it was found."""
