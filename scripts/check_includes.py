"""Checks that includes point only downwards. Run by scripts/check; prints each offending line and exits 1.

bin, node -> roles -> interfaces, messages -> storage -> config. No role includes another role's header.
"""
import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
OWN_INCLUDE = re.compile(r'^\s*#\s*include\s*"([^"]+)"')
ANY_INCLUDE = re.compile(r'^\s*#\s*include\s*[<"]([^>"]+)[>"]')

# What every actor may use: the protocol and the base class, which belong to no role.
SHARED = ("interfaces", "messages", "actor_base", "actor_registry", "type_ids")
# Plain folders below actors/ that no role owns alone; each names the folders it may include besides config and storage.
PLAIN = {
    "actors/runner": ("actors/runner",),
    "actors/http": ("actors/http",),
    "actors/inspector": ("actors/inspector", "actors/http"),
    "actors/cli": ("actors/cli", "actors/http"),
}
# Where roles live: alone, or with what only they need.
ROLE_FOLDERS = ("actors", "actors/database", "actors/dispatcher", "actors/workers")
# Libraries a folder must not see: an include that begins with one of these is an error.
FORBIDDEN_LIBRARIES = {
    "config": ("caf/", "boost/", "SQLiteCpp/", "sqlite3.h"),
    "storage": ("caf/", "boost/"),
    "actors/runner": ("caf/", "SQLiteCpp/", "sqlite3.h"),
    "actors/cli": ("caf/", "SQLiteCpp/", "sqlite3.h"),
    "actors": ("SQLiteCpp/", "sqlite3.h"),
}
# Nobody pulls in a whole library by its umbrella header. asio.cpp compiles the libraries' own parts.
UMBRELLAS = {"caf/all.hpp", "boost/asio.hpp", "boost/beast.hpp", "boost/process.hpp"}


def folder_of(path):
    return path.rsplit("/", 1)[0] if "/" in path else ""


def is_protocol(path):
    return folder_of(path) == "actors" and pathlib.PurePath(path).stem in SHARED


def roles():
    """The names of all actors, from the interfaces themselves: `using worker_actor = …` makes worker a role."""
    interfaces = ROOT / "actors" / "interfaces.hpp"
    return set(re.findall(r"^using (\w+)_actor =", interfaces.read_text(encoding="utf-8"), re.M))


ROLES = roles()


def is_role(path):
    """A role's own header; a plain class that a role uses (an index, a batch) is none."""
    return folder_of(path) in ROLE_FOLDERS and pathlib.PurePath(path).stem in ROLES


def is_top(path):
    """The mains and the files that put the node together: they know every role."""
    return path.startswith(("actors/bin/", "actors/node/"))


def own_allowed(source, target):
    """May `source` include KCX's header `target`?"""
    if target.startswith("config/"):
        return True
    if source.startswith("config/"):
        return False
    if target.startswith("storage/"):
        return True
    if source.startswith("storage/"):
        return False
    if source.startswith("tests/") or is_top(source):
        return True
    if target.startswith("tests/"):
        return False
    # A role's own files: reader.cpp; dispatcher/claims.cpp, too, where one file is not enough, or
    # worker_supervisor_slots.cpp where two roles share a folder.
    own = pathlib.PurePath(target).with_suffix("")
    if str(pathlib.PurePath(source).with_suffix("")) == str(own) or own.name == folder_of(source).rsplit("/", 1)[-1]:
        return True
    if source.endswith(".cpp") and source.startswith(f"{own}_"):
        return True
    for folder, reachable in PLAIN.items():
        if source.startswith(folder + "/"):
            return target.startswith(tuple(f + "/" for f in reachable)) or (is_protocol(target) and folder != "actors/runner")
    if is_protocol(source):
        return is_protocol(target) or target.startswith(tuple(folder + "/" for folder in PLAIN))
    # A role or a plain class: the protocol, plain classes and plain folders, never another role.
    return is_protocol(target) or (not is_role(target) and not is_top(target))


def library_allowed(source, target, uses_caf, uses_beast):
    for folder, names in FORBIDDEN_LIBRARIES.items():
        if source.startswith(folder + "/") and target.startswith(names):
            return f"{folder} must not use {target}"
    if target in UMBRELLAS:
        return f"include the parts that are needed, not {target}"
    if uses_caf and uses_beast and target.startswith("boost/beast/"):
        return "one file must not use CAF and Beast: split it at the bridge"
    return None


def check(path):
    source = path.relative_to(ROOT).as_posix()
    lines = path.read_text(encoding="utf-8").splitlines()
    included = [m.group(1) for m in map(ANY_INCLUDE.match, lines) if m]
    uses_caf = any(i.startswith("caf/") for i in included)
    uses_beast = any(i.startswith("boost/beast/") for i in included)
    for number, line in enumerate(lines, 1):
        own, any_ = OWN_INCLUDE.match(line), ANY_INCLUDE.match(line)
        problem = None
        if any_:
            problem = library_allowed(source, any_.group(1), uses_caf, uses_beast)
        if own and problem is None and not own.group(1).startswith("caf/"):
            target = own.group(1)
            if not (ROOT / target).is_file():
                problem = f'"{target}" is not a path from the root of the repository'
            elif not own_allowed(source, target):
                problem = f"{folder_of(source)} must not include {target}"
        if problem:
            yield f"{source}:{number}: {problem}"


def main():
    sources = [p for top in ("config", "storage", "actors", "tests") for p in sorted((ROOT / top).rglob("*.[ch]pp"))]
    problems = [problem for path in sources for problem in check(path)]
    print("\n".join(problems))
    print(f"{len(sources)} files, {len(problems)} problems")
    return 1 if problems or not sources else 0


if __name__ == "__main__":
    sys.exit(main())
