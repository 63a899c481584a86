"""Functions of the user's own, named in a study file as `file.py:function`."""

from __future__ import annotations

import importlib.util
import sys
from typing import Any

from ggmc.cli.study.fields import PYTHON, near
from ggmc.cli.study.read import Study
from ggmc.errors import BadInput


def load(study: Study, given: str) -> Any:
    """What a study names. The file is executed as a module of its own; what lies beside it can be imported.

    Args:
        study: The study.
        given: Of the form `file.py:function`.
    """
    match = PYTHON.fullmatch(given)
    assert match is not None, given
    file, name = study.path_of(match[1]), match[2]
    if not file.is_file():
        raise BadInput(f"there is no file {file}, which {given!r} names")
    spec = importlib.util.spec_from_file_location(f"ggmc_study_{file.stem}", file)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # as dataclasses and pickles need it
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    if name not in vars(module):
        public = [other for other, value in vars(module).items() if callable(value) and not other.startswith("_")]
        raise BadInput(f"{file} has no function {name}{near(name, public)}")
    return vars(module)[name]


def call(study: Study, given: str) -> Any:
    """What a function named in a study returns, called without arguments.

    Args:
        study: The study.
        given: Of the form `file.py:function`.
    """
    function = load(study, given)
    if not callable(function):
        raise BadInput(f"{given} is no function, but {type(function).__name__}")
    return function()
