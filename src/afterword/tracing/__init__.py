"""Spans of requests for OpenTelemetry: what is noted of a request, and how it is sent, if that is configured."""
