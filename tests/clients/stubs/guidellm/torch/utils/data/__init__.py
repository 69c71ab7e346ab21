def get_worker_info() -> None:
    """There are no worker processes."""
