"""What the server is told: every setting once, as typed models, and how they are read."""
