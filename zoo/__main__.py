"""``python -m zoo``: the same as the command ``zoo``."""

from .cli import main

if __name__ == "__main__":
    main()
