"""Sphinx configuration of the documentation: `make docs`."""

from docutils.nodes import SkipNode
from docutils.utils.math.latex2mathml import tex2mathml

project = "netsim"
extensions = ["myst_parser"]
myst_enable_extensions = ["dollarmath", "html_image"]      # thumbnails have a width
myst_fence_as_directive = {"math"}
myst_heading_anchors = 3
html_theme = "furo"
html_title = "netsim"
html_math_renderer = "mathml"
html_static_path = ["_static"]
html_css_files = ["formulas.css", "gallery.css"]
html_show_sourcelink = False
html_show_copyright = False
suppress_warnings = ["myst.xref_missing"]      # results/ is outside the site; a test checks every link


def setup(app):
    """Render formulas as MathML, which browsers display without scripts or network access."""
    def inline(writer, node):
        writer.body.append(tex2mathml(node.astext()))
        raise SkipNode

    def block(writer, node):
        writer.body.append(f'<div class="math">{tex2mathml(node.astext(), as_block=True)}</div>')
        raise SkipNode

    app.add_html_math_renderer("mathml", (inline, None), (block, None))
