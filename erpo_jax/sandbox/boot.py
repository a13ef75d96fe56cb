"""The file a worker's interpreter runs. It lends the worker's modules a package to live in: the package proper is never
imported in a worker, where programs could see it.
"""

import os
import sys
import types

for _name in ("erpo_jax", "erpo_jax.sandbox"):
    _package = types.ModuleType(_name)
    _package.__path__ = [os.path.dirname(os.path.abspath(__file__))] if "." in _name else []
    sys.modules[_name] = _package

from erpo_jax.sandbox import zygote  # noqa: E402

zygote.main(sys.argv[1])
