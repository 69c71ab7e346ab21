"""From the configuration to running engines: one file for each way to run a model."""
