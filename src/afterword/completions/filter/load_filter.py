"""Loads the filter that the setting `content_filter` names, once, before the server listens."""

import sys
from pathlib import Path

from afterword.completions.filter.function_filter import load_function
from afterword.completions.filter.list_filter import read_list
from afterword.completions.filter.verdict import ContentFilter
from afterword.config.values import FunctionName


def load_filter(setting: Path | FunctionName | None) -> ContentFilter | None:
    """The filter of a list file or of a function; none for None. Raises `ConfigurationError`.

    A function's module is also looked for in the current directory, which stays on Python's path: the module may
    import others there when it is called.
    """
    match setting:
        case FunctionName(module, name):
            # A program that is started by its script does not have the current directory on its path.
            if (here := str(Path.cwd())) not in sys.path:
                sys.path.append(here)
            return load_function(module, name)
        case Path():
            return read_list(setting)
        case None:
            return None
