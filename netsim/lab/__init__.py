"""The teaching lab: one round of one cohort under two methods, as pictures, formulas and slow motion.

The pages are marimo notebooks in ``lessons/``, which use this package. Only ``web_server``, ``pages``,
``worksheets`` and ``widgets`` need marimo, so the charts also work in other notebooks.
"""
