"""This build: versions, what of llama.cpp is compiled in, and which kernels compute."""

import os
import re
import shutil
from collections.abc import Iterator

from afterword import __version__
from afterword.cli.doctor.ask_llama import AboutBuild, ask
from afterword.cli.doctor.finding import Finding

BUILD = "build"
GIB = 2**30


def build() -> Iterator[Finding]:
    """The kernels are compiled if they are not there yet, as at the first start: some seconds."""
    yield Finding(BUILD, "afterword", __version__)
    names = [name for name in (os.environ.get("CXX", ""), "c++", "g++", "clang++") if shutil.which(name) is not None]
    yield Finding(BUILD, "compiler", names[0] if names else "none")
    about = ask(AboutBuild())
    yield Finding(BUILD, "python", about["python"])
    yield Finding(BUILD, "llama-cpp-python", about["binding"])
    version, _, compiled = about["llama.cpp"].partition(" ")
    yield Finding(BUILD, "llama.cpp", " ".join([version, *re.findall(r"(\w+) = 1", compiled)]))
    devices = [
        f"{each['name']} ({each['description']}), {each['free'] / GIB:.1f} GiB free" for each in about["devices"]
    ]
    yield Finding(BUILD, "accelerators", ", ".join(devices) or "none")
    if about["kernels"] is None:
        advice = f"{about['reason']}: slower, and not the same bytes beside other requests."
        yield Finding(BUILD, "kernels", "llama.cpp's own", advice=advice[:1].upper() + advice[1:])
    else:
        yield Finding(BUILD, "kernels", about["kernels"])
