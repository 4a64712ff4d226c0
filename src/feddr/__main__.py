"""``python -m feddr``, the same as the command ``feddr``."""

from feddr.commands.main import main

if __name__ == "__main__":
    main()
