"""A figure that notebooks show by themselves: without pyplot, its state and its windows."""

import io

from matplotlib.figure import Figure


class NotebookFigure(Figure):
    """A matplotlib figure that is a picture where it is the last thing in a cell."""

    def _repr_png_(self) -> bytes:
        with io.BytesIO() as file:
            self.savefig(file, format="png", dpi=100)
            return file.getvalue()
