"""``python -m ddlearn`` is the command ``ddlearn``."""

from .cli import main

if __name__ == "__main__":
    main()
