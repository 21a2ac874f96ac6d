"""Equations as pictures, drawn offline."""

from __future__ import annotations

from io import BytesIO

from seqloom.inspect.picture import require_matplotlib


def formula_svg(equation: str, *, size: float = 15) -> bytes:
    """Return TeX, in the subset of matplotlib, as an SVG picture with this font size in points."""
    require_matplotlib()
    from matplotlib import style
    from matplotlib.font_manager import FontProperties
    from matplotlib.mathtext import math_to_image

    picture = BytesIO()
    with style.context({"savefig.transparent": True}, after_reset=True):
        math_to_image(f"${equation}$", picture, format="svg", prop=FontProperties(size=size))
    return picture.getvalue()
