"""The configuration: every setting once, as typed models, and how they are read."""
