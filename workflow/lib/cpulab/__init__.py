"""Runs a published tutorial's experiments on this machine and judges its findings."""
