"""``python -m zoo.cli``: the same as the command ``zoo``."""

from . import main

if __name__ == "__main__":
    main()
