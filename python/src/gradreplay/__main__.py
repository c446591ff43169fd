"""`python3 -m gradreplay identity`: what a result depends on besides sources and program."""

from __future__ import annotations

import sys

from .environment import identity


def main() -> None:
    """Prints interpreter and installed distributions, or how this is used."""
    if sys.argv[1:] != ["identity"]:
        sys.stderr.write("usage: python3 -m gradreplay identity\n")
        sys.exit(2)
    print(identity())


main()
