"""The same server on many machines: engines and HTTP as replicas of Ray Serve deployments."""
