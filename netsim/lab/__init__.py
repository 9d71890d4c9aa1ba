"""The teaching lab: one round of one cohort under two methods, as pictures, formulas and slow motion.

The pages themselves are marimo notebooks in ``lessons/``; here is what they lean on. Nothing here needs marimo but
``serve``, so the charts also work in other notebooks.
"""
