"""What a class of controllers is, as a text: results of another are not its own."""

from __future__ import annotations

import dis
import hashlib
import importlib.util
import os
import pathlib
import platform
import site
import sys
import sysconfig
import types
import warnings
from importlib import metadata
from typing import Any, Dict, List, Optional, Sequence, Tuple, Union


def fingerprint(classes: Sequence[type]) -> str:
    """A text that changes when a class does what it does otherwise: its code, its attributes, the
    functions, classes, objects and constants that they name, and the source of the modules that
    these name or import. Of Python and of installed packages it has the version. It does not see
    files that a class reads, nor what it imports or evaluates by a text that it puts together."""
    seen: _Seen = {}
    own = hashlib.sha256()
    for file in sorted(pathlib.Path(__file__).parent.glob("*.py")):
        own.update(file.read_bytes())
    text = ";".join([own.hexdigest(), *(_print_of(one, seen) for one in classes)])
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest()


#: What has been printed, with its number: objects by id, modules by name. An object is kept, so
#: that no other has its id.
_Seen = Dict[Union[int, str], Tuple[int, Any]]

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
    # Objects of classes that inherit from these may show their address.
    if type(value) is int:
        return hex(value)
    if type(value) in (type(None), bool, float, complex, str, bytes, type(...)):
        return repr(value)
    if type(value) is tuple:
        # It may be one object or several; it is in no ring without another object.
        return "(" + ",".join(_print_of(one, seen) for one in value) + ")"
    if isinstance(value, types.CodeType):
        caught = getattr(value, "co_exceptiontable", b"")
        parts = (value.co_code, value.co_names, value.co_varnames, value.co_consts, caught)
        return _print_of(parts, seen)
    if isinstance(value, types.ModuleType):
        return _print_of_module(value.__name__, seen)
    if id(value) in seen:
        return f"<{seen[id(value)][0]}>"
    seen[id(value)] = (len(seen), value)
    if type(value) is list:
        return "[" + ",".join(_print_of(one, seen) for one in value) + "]"
    if type(value) in (set, frozenset):
        # They have no order, so that none may count on those before it.
        return "{" + ",".join(sorted(_print_of(one, dict(seen)) for one in value)) + "}"
    if type(value) in (dict, types.MappingProxyType):
        items = [f"{_print_of(key, seen)}:{_print_of(one, seen)}" for key, one in value.items()]
        return "{" + ",".join(items) + "}"
    if isinstance(value, (staticmethod, classmethod)):
        return _print_of(value.__func__, seen)
    if isinstance(value, property):
        return _print_of((value.fget, value.fset), seen)
    if isinstance(value, (type, types.FunctionType)):
        version = _version(value.__module__)
        if version is not None:
            return f"{value.__module__}.{value.__qualname__} {version}"
    if isinstance(value, types.FunctionType):
        return _print_of_function(value, seen)
    if isinstance(value, type):
        own = {key: one for key, one in vars(value).items() if key not in _HIDDEN}
        return _print_of((type(value), value.__qualname__, value.__bases__, own), seen)
    return _print_of((type(value), _state(value)), seen)


def _print_of_function(function: types.FunctionType, seen: _Seen) -> str:
    code, known = function.__code__, function.__globals__
    names = _names(code)
    named = {name: known[name] for name in names if name in known}
    closure = [_content(cell) for cell in function.__closure__ or ()]
    imported = _imports(code, known.get("__package__") or "")
    modules = [sys.modules.get(name) for name in imported]
    inner = _named_in([*named.values(), *closure, *modules], names)
    parts = (code, function.__defaults__, function.__kwdefaults__, vars(function), closure)
    sources = ",".join(_print_of_module(name, seen) for name in imported)
    return f"{_print_of((*parts, named, inner), seen)} {sources}"


def _print_of_module(name: str, seen: _Seen) -> str:
    """An installed module by its version; one's own by its source and the modules it imports."""
    version = _version(name)
    if version is not None:
        return f"{name} {version}"
    if name in seen:
        return name
    seen[name] = (len(seen), None)
    file = _file(name)
    try:
        source = pathlib.Path(file or "").read_bytes()
    except OSError:  # A notebook, or made by a program.
        source = b""
    imported: List[str] = []
    package = name if os.path.basename(file or "") == "__init__.py" else name.rpartition(".")[0]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            imported = _imports(compile(source, name, "exec", dont_inherit=True), package)
        except (SyntaxError, ValueError):  # It is in machine code.
            pass
    inner = ",".join(_print_of_module(one, seen) for one in imported)
    return f"{name} {hashlib.sha256(source).hexdigest()} [{inner}]"


def _named_in(values: Sequence[Any], names: Sequence[str]) -> Dict[str, Any]:
    """What has one of the names in those of the values that are one's own modules, or in modules
    within them."""
    found: Dict[str, Any] = {}
    modules = [one for one in values if isinstance(one, types.ModuleType)]
    for module in modules:  # It grows.
        if _version(module.__name__) is not None:
            continue
        for name in names:
            path = f"{module.__name__}.{name}"
            if name in vars(module) and path not in found:
                found[path] = vars(module)[name]
                if isinstance(found[path], types.ModuleType):
                    modules.append(found[path])
    return found


def _state(value: Any) -> Any:
    """What makes an object what it is: what it wraps, or what pickle would keep."""
    if hasattr(value, "__wrapped__"):
        return value.__wrapped__, getattr(value, "__dict__", None)
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


def _version(module: Any) -> Optional[str]:
    """The version of an installed module, or of Python; None for a module of one's own."""
    if not isinstance(module, str):  # Of a class in machine code it may be anything.
        return None
    top = module.split(".")[0]
    if top == "evenkeel" or top in sys.builtin_module_names:
        return ""
    if top == "__main__":
        return None
    if top in getattr(sys, "stdlib_module_names", ()):
        return platform.python_version()
    file = _file(module)
    places = (sysconfig.get_path(name) for name in ("stdlib", "platstdlib", "purelib", "platlib"))
    begins = tuple(os.path.join(place, "") for place in (*places, site.getusersitepackages()))
    parts = pathlib.PurePath(file or "").parts
    # Debian's Python has packages in another place than its own.
    is_package = "site-packages" in parts or "dist-packages" in parts
    if not file or not (is_package or file.startswith(begins)):
        return None
    version = getattr(sys.modules.get(top), "__version__", None)
    if version is None:
        try:
            version = metadata.version(top)
        except metadata.PackageNotFoundError:
            version = platform.python_version()
    return str(version)


def _file(module: str) -> Optional[str]:
    """The file that a module is in, or will be; None if there is none."""
    if module in sys.modules:
        file = getattr(sys.modules[module], "__file__", None)
        return None if file is None else str(file)
    try:
        spec = importlib.util.find_spec(module)
    except Exception:  # It may import what the module is in.
        return None
    return spec.origin if spec is not None and spec.has_location else None


def _imports(code: types.CodeType, package: str) -> List[str]:
    """The names of the modules that code imports, with that of functions in it."""
    found: Dict[str, None] = {}
    steps = [step for step in dis.get_instructions(code) if step.opname != "EXTENDED_ARG"]
    for place, step in enumerate(steps):
        if step.opname != "IMPORT_NAME":
            continue
        # `from ..a import b, c` has put down 2 and ("b", "c") before it.
        level, inner = steps[place - 2].argval, steps[place - 1].argval
        try:
            name = importlib.util.resolve_name("." * level + str(step.argval), package)
        except (ImportError, ValueError):  # It will fail.
            continue
        parts = name.split(".")
        found.update(dict.fromkeys(".".join(parts[: end + 1]) for end in range(len(parts))))
        if _version(name) is None:
            modules = (f"{name}.{one}" for one in inner or ())
            found.update(dict.fromkeys(one for one in modules if _file(one) is not None))
    for one in code.co_consts:
        if isinstance(one, types.CodeType):
            found.update(dict.fromkeys(_imports(one, package)))
    return list(found)


def _names(code: types.CodeType) -> List[str]:
    """The names that code uses, with that of functions in it."""
    inner = [
        name for one in code.co_consts if isinstance(one, types.CodeType) for name in _names(one)
    ]
    return sorted({*code.co_names, *inner})
