import enum
import os
import subprocess
import sys

import evenkeel
import pytest
from evenkeel._fingerprint import fingerprint

PRINTS = """
import sys, warnings
warnings.simplefilter("error")
import evenkeel
from evenkeel._fingerprint import fingerprint
from mine import Mine
print(fingerprint([Mine]))
"""

#: A class that uses a module, and what the module has before and after a change.
USES = {
    "a constant": ("import helper", "helper.N", "N = 1", "N = 2"),
    "a function": ("import helper", "helper.f()", "def f(): return 1", "def f(): return 2"),
    "an alias": ("import helper as h", "h.f()", "def f(): return 1", "def f(): return 2"),
    "what a function names": (
        "import helper",
        "helper.f()",
        "N = 1\ndef f(): return N",
        "N = 2\ndef f(): return N",
    ),
    "a class": ("import helper", "helper.Class.n", "class Class: n = 1", "class Class: n = 2"),
    "what is found by a text": (
        "import helper",
        "getattr(helper, 'N')",
        "N = 1",
        "N = 2",
    ),
    "an import in a method": ("", "__import__\n        import helper", "N = 1", "N = 2"),
    "a name that a method imports": ("", "0\n        from helper import N", "N = 1", "N = 2"),
    "a module of a module": (
        "import outer",
        "outer.g()",
        "def f(): return 1",
        "def f(): return 2",
    ),
    "a module that a function of a module imports": (
        "import late",
        "late.g()",
        "def f(): return 1",
        "def f(): return 2",
    ),
    "a module of a package": (
        "import package.inner",
        "package.inner.g()",
        "def f(): return 1",
        "def f(): return 2",
    ),
    "a module that a method finds in a package": (
        "",
        "0\n        from package import inner",
        "def f(): return 1",
        "def f(): return 2",
    ),
}


def print_in(place, script=PRINTS):
    """What a new process prints."""
    words = [sys.executable, "-c", script]
    # Two texts of one length and second would be one to Python's own cache.
    environment = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1"}
    made = subprocess.run(words, cwd=place, env=environment, capture_output=True, text=True)
    assert (made.returncode, made.stderr) == (0, "")
    return made.stdout


@pytest.mark.parametrize("what", USES)
def test_a_fingerprint_follows_the_modules_that_a_class_uses(tmp_path, what):
    imports, uses, before, after = USES[what]
    (tmp_path / "mine.py").write_text(
        f"import evenkeel\n{imports}\nclass Mine(evenkeel.Controller):\n"
        f"    def on_round(self, round):\n        self.window += {uses}\n"
    )
    (tmp_path / "outer.py").write_text("from helper import f\ndef g(): return f()")
    (tmp_path / "late.py").write_text("def g():\n    import helper\n    return helper.f()")
    package = tmp_path / "package"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "inner.py").write_text("from .most import g")
    (package / "most.py").write_text("import helper\ndef g(): return helper.f()")
    (tmp_path / "helper.py").write_text(before)
    one = print_in(tmp_path)
    assert print_in(tmp_path) == one
    (tmp_path / "helper.py").write_text(after)
    assert print_in(tmp_path) != one


def test_a_fingerprint_follows_what_a_script_sets_in_a_module(tmp_path):
    (tmp_path / "helper.py").write_text("N = 1")
    script = """
import evenkeel, helper
from evenkeel._fingerprint import fingerprint
class Mine(evenkeel.Controller):
    def on_round(self, round):
        self.window += helper.N
one = fingerprint([Mine])
helper.N = 2
assert fingerprint([Mine]) != one
"""
    print_in(tmp_path, script)


def test_a_fingerprint_follows_the_metaclass():
    def made(gain):
        class Meta(type):
            def gain(cls):
                return gain

        class Mine(evenkeel.Controller, metaclass=Meta):
            pass

        return Mine

    assert fingerprint([made(1)]) == fingerprint([made(1)])
    assert fingerprint([made(1)]) != fingerprint([made(2)])


#: What has another address, or another order, in each process.
HELD = """
import enum, evenkeel
class Plain:
    def __init__(self, value):
        self.value = value
class Key(str):
    def __repr__(self):
        return object.__repr__(self)
class Shown(enum.Enum):
    ONE = frozenset("abcdef")
class Mine(evenkeel.Controller):
    plain = {Plain(1): 2, (Plain(3),): 4}
    sets = {frozenset("abcdef"): 1, frozenset("uvwxyz"): {"a", "b", "c"}}
    keys = {Key("a"): Key("b"), Shown.ONE: len, print: Shown}
    calls = [Plain(1).__init__, max, {}.get]
    great = 10**5000
Mine.itself = {Mine}
"""


def test_a_fingerprint_is_the_same_in_every_process(tmp_path):
    (tmp_path / "mine.py").write_text(HELD)
    prints = {print_in(tmp_path) for _ in range(4)}
    assert len(prints) == 1
    for before, after in [
        ("Plain(1): 2", "Plain(5): 2"),
        ("(Plain(3),)", "(Plain(5),)"),
        ('{frozenset("abcdef")', '{frozenset("abcdeg")'),
        ('Key("a"):', 'Key("c"):'),
        ("10**5000", "10**5001"),
    ]:
        assert HELD.count(before) == 1
        (tmp_path / "mine.py").write_text(HELD.replace(before, after))
        prints.add(print_in(tmp_path))
    assert len(prints) == 6


def test_a_fingerprint_of_keys_follows_their_contents():
    class Colour(enum.Enum):
        RED = 1
        BLUE = 2

    def holds(value):
        return type("Holds", (evenkeel.Controller,), {"held": value})

    one = fingerprint([holds({Colour.RED: 1})])
    assert one == fingerprint([holds({Colour.RED: 1})])
    assert one != fingerprint([holds({Colour.BLUE: 1})])


def test_a_league_is_played_again_when_a_module_has_changed(tmp_path):
    (tmp_path / "mine.py").write_text(
        "import evenkeel\nimport helper\nclass Mine(evenkeel.Controller):\n"
        "    def on_round(self, round):\n        self.window += helper.N\n"
    )
    script = """
import evenkeel
from mine import Mine
played = evenkeel.league(
    {"mine": Mine}, against=(), cases=["start/100-kB"], quick=True, jobs=1, out="league"
)
print(played.summary["results"])
"""
    results = []
    for text in ("N = 3000", "N = 3000", "N = 0"):
        (tmp_path / "helper.py").write_text(text)
        results.append(print_in(tmp_path, script))
        count = len(list(tmp_path.glob("league/runs/*/*")))
        assert count == 1 + (text == "N = 0")
    assert results[0] == results[1] != results[2]
