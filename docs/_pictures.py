"""Pictures for a light and a dark page: one SVG file that holds both sets of colours.

A browser shows the set that fits the page's `color-scheme` (or the system's, where it does not pass that on to
pictures); the ground is part of the picture, so both are legible on any page. Images and heat maps keep their colours.
"""

import io
import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from matplotlib.figure import Figure

COLOUR = re.compile(r"#[0-9a-f]{6}\b")
GROUND, INK = 0x1A, 0xE8  # of the dark: what white and black become


def themed_svg(figure: "Figure") -> str:
    """The figure as an SVG document in its own colours and, on a dark page, in their counterparts."""
    buffer = io.StringIO()
    figure.savefig(
        buffer, format="svg", facecolor="white", metadata=dict.fromkeys(("Date", "Creator", "Format", "Type"))
    )
    head, mark, body = buffer.getvalue().partition("<defs>")
    styled = re.sub(r'style="[^"]*"', lambda style: COLOUR.sub(r"var(--\g<0>)", style[0]).replace("--#", "--c"), body)
    colours = sorted({match[2:] for match in re.findall(r"--c[0-9a-f]{6}", styled)})
    # Matplotlib names no colour where it draws in black, SVG's own default.
    light, dark = (
        " ".join([f"fill: {f('#000000')};", *(f"--{name}: {f(f'#{name[1:]}')};" for name in colours)])
        for f in (str, darkened)
    )
    style = f"<style>svg {{ {light} }} @media (prefers-color-scheme: dark) {{ svg {{ {dark} }} }}</style>"
    return f"{head}{style}{mark}{styled}"


def darkened(colour: str) -> str:
    """The colour for a dark ground: greys are mirrored, others are lightened a little."""
    channels = [int(colour[start : start + 2], 16) for start in (1, 3, 5)]
    if max(channels) - min(channels) < 0x18:
        channels = [round(INK + (GROUND - INK) * channel / 255) for channel in channels]
    else:
        channels = [round(channel + 0.3 * (255 - channel)) for channel in channels]
    return "#" + "".join(f"{channel:02x}" for channel in channels)
