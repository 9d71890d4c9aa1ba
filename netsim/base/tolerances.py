"""Tolerances for rounding, each with its reason; relative unless a unit is given.

A tolerance stands here if it absorbs rounding, so that one reason has one value everywhere. Where a search stops
(the step of a solver, the width of a bracket) belongs to the search.
"""

from __future__ import annotations

# What one or a few operations in double precision differ by: sums in another order, a value and its inverse.
ROUNDING = 1e-12

# What a plan may miss a constraint by (budget, band, deadline): many operations, and solvers that stop at 1e-10.
CONSTRAINT = 1e-9

# Times, savings and energies below are differences of larger numbers that agree but for rounding: shown as 0.
SHOWN_S = 1e-12
SHOWN_SAVING_S = 1e-9
SHOWN_SUM = 1e-15

# A plan this near to its lower bound is printed as meeting it: the four digits that are shown are the same.
MEETS_BOUND = 1e-6

# A run that is played again, by other versions of the libraries or on another machine, has the recorded times to this.
REPLAYED = 1e-9

# Units in the last place of the simulated clock: instants nearer to each other are the same but for rounding.
CLOCK_ULPS = 64

# A user's link model: how far bandwidth(rate) may miss being the inverse of rate(bandwidth).
INVERSE = 1e-9

# Of a round: uploads this short are known to few digits, so that the best shares of the band are lost in rounding.
SHORT_UPLOAD = 1e-6

# Times the signals' J in all: a wider band makes no upload shorter by more than rounding.
AMPLE = 1e9

# Relative differences below are shown as 0.0 %, and differences of shares below as 0.00 points.
SHOWN_RATIO = 5e-4
SHOWN_POINTS = 5e-5
