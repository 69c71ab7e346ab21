"""`afterword doctor`: what machine, build, configuration, models and services look like, and what is wrong."""
