"""The machine and the environment: what is there, how it is tuned, how a measured process is started."""
