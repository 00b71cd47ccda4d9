"""What a class of controllers is, as a text: results of another are not its own."""

from __future__ import annotations

import hashlib
import platform
import site
import sys
import sysconfig
import types
from typing import Any, Dict, List, Optional, Sequence, Tuple


def fingerprint(classes: Sequence[type]) -> str:
    """A text that changes when a class does what it does otherwise: its code, its attributes, and
    the functions, classes, objects and constants that they name. Of installed packages it has the
    version."""
    seen: _Seen = {}
    text = ";".join(_print_of(one, seen) for one in classes)
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


#: What has been printed, by id, with its number. It is kept, so that no other object has its id.
_Seen = Dict[int, Tuple[int, Any]]

#: Attributes of a class that say nothing of what it does.
_HIDDEN = (
    "__dict__",
    "__weakref__",
    "__module__",
    "__doc__",
    "__firstlineno__",
    "__static_attributes__",
)


def _print_of(value: Any, seen: _Seen) -> str:
    if isinstance(value, (type(None), bool, int, float, complex, str, bytes)):
        return repr(value)
    if isinstance(value, tuple) and type(value) is tuple:
        # It may be one object or several; it is in no ring without another object.
        return "(" + ",".join(_print_of(one, seen) for one in value) + ")"
    if isinstance(value, types.CodeType):
        return _print_of((value.co_code, value.co_names, value.co_varnames, value.co_consts), seen)
    if id(value) in seen:
        return f"<{seen[id(value)][0]}>"
    seen[id(value)] = (len(seen), value)
    if type(value) is list:
        return "[" + ",".join(_print_of(one, seen) for one in value) + "]"
    if type(value) in (set, frozenset):
        return "{" + ",".join(sorted(_print_of(one, {}) for one in value)) + "}"
    if isinstance(value, (dict, types.MappingProxyType)) and type(value).__module__ == "builtins":
        return "{" + ",".join(f"{key!r}:{_print_of(one, seen)}" for key, one in value.items()) + "}"
    if isinstance(value, (staticmethod, classmethod)):
        return _print_of(value.__func__, seen)
    if isinstance(value, property):
        return _print_of((value.fget, value.fset), seen)
    if isinstance(value, types.ModuleType):
        return f"{value.__name__} {getattr(value, '__version__', '')}"
    if isinstance(value, (type, types.FunctionType)):
        version = _version(value.__module__)
        if version is not None:
            return f"{value.__module__}.{value.__qualname__} {version}"
    if isinstance(value, types.FunctionType):
        named = {
            name: value.__globals__[name]
            for name in _names(value.__code__)
            if name in value.__globals__
        }
        closure = tuple(_content(cell) for cell in value.__closure__ or ())
        parts = (value.__code__, value.__defaults__, value.__kwdefaults__, closure, named)
        return _print_of(parts, seen)
    if isinstance(value, type):
        own = {key: one for key, one in vars(value).items() if key not in _HIDDEN}
        return _print_of((value.__qualname__, value.__bases__, own), seen)
    return _print_of((type(value), _state(value)), seen)


def _state(value: Any) -> Any:
    """What makes an object what it is: what it wraps, or what pickle would keep."""
    if hasattr(value, "__wrapped__"):
        return value.__wrapped__
    try:
        kept = value.__reduce_ex__(4)
    except Exception:
        return getattr(value, "__dict__", None)
    if isinstance(kept, str):
        return kept
    # The last two are iterators over its items.
    return (*kept[:3], *(list(items or ()) for items in kept[3:5]))


def _content(cell: types.CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # A variable without a value yet.
        return None


def _version(module: Optional[str]) -> Optional[str]:
    """The version of an installed module, or of Python; None for a module of one's own."""
    top = (module or "").split(".")[0]
    if top == "evenkeel" or top in sys.builtin_module_names:
        return ""
    file = getattr(sys.modules.get(module or ""), "__file__", None)
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    if not file or not file.startswith((*places, site.getusersitepackages())):
        return None
    return str(getattr(sys.modules.get(top), "__version__", platform.python_version()))


def _names(code: types.CodeType) -> List[str]:
    """The names that code uses, with that of functions in it."""
    inner = [
        name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)
    ]
    return sorted({*code.co_names, *inner})
