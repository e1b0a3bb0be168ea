"""Named queries: SQL lives in `.sql` files and is called by name.

A query begins with `-- name: claim_due`; the comment lines after it give the reasons.
Comments are not sent to the database. Conditions that several queries share are a fragment: it begins with
`-- fragment: run_fits` and stands in the queries where they say `/* run_fits */`.
"""

from __future__ import annotations

from importlib.resources import files

MARK = "-- name:"
FRAGMENT = "-- fragment:"


def load(package: str, *names: str) -> dict[str, str]:
    """Return the queries of these files by name; refuse a name that occurs twice or has no text."""
    return parse("\n".join(text(package, f"{name}.sql") for name in names))


def text(package: str, file: str) -> str:
    """The whole file, for schemas and migrations."""
    return (files(package) / file).read_text(encoding="utf-8")


def parse(source: str) -> dict[str, str]:
    lines: dict[str, list[str]] = {}
    fragments: set[str] = set()
    current: list[str] = []
    for line in source.splitlines():
        if line.startswith((MARK, FRAGMENT)):
            name = line.partition(":")[2].strip()
            if not name.isidentifier() or name in lines:
                raise ValueError(f"{name!r} is not a valid name for a query, or occurs twice")
            current = lines[name] = []
            if line.startswith(FRAGMENT):
                fragments.add(name)
        elif line.strip() and not line.lstrip().startswith("--"):
            current.append(line.rstrip())
    queries = {name: "\n".join(body).rstrip(";") for name, body in lines.items()}
    empty = [name for name, query in queries.items() if not query]
    if empty:
        raise ValueError(f"queries without text: {empty}")
    for name in fragments:
        text = queries.pop(name)
        queries = {query: body.replace(f"/* {name} */", text) for query, body in queries.items()}
    return queries
