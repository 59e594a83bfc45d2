"""What the EMSCO paper and others have published, to compare our figures with. (accuracy %, coverage %, cost) of test rows."""

from __future__ import annotations

# Table II of the paper; its own divisions and prices, of which those of Pima, Credit and Heart are not in its text.
PAPER_TABLE = {
    ("pima", "EMSCO"): (71.1, 99, 242.4),
    ("pima", "Greedy Miser"): (68.1, 100, 500),
    ("pima", "CSTC"): (67.3, 100, 624),
    ("pima", "CaCT LASSO"): (82, 83.4, 1100),
    ("pima", "CO-T"): (72, 97, 524),
    ("credit", "EMSCO"): (83.1, 96.1, 365.89),
    ("credit", "Greedy Miser"): (76.4, 100, 107),
    ("credit", "CSTC"): (78.1, 100, 522),
    ("credit", "CaCT LASSO"): (89.1, 80.1, 1420),
    ("credit", "CO-T"): (81.3, 93.2, 695.8),
    ("heart", "EMSCO"): (83.4, 89.3, 102.4),
    ("heart", "Greedy Miser"): (79.2, 100, 38.6),
    ("heart", "CSTC"): (81.1, 100, 560),
    ("heart", "CaCT LASSO"): (88, 65, 120),
    ("heart", "CO-T"): (87.1, 72, 255.3),
    ("synthetic50", "EMSCO"): (66.4, 100, 16.47),
    ("synthetic50", "Greedy Miser"): (65, 100, 76.5),
    ("synthetic50", "CSTC"): (64.3, 100, 72.2),
    ("synthetic50", "CaCT LASSO"): (82.6, 92.7, 70),
    ("synthetic50", "CO-T"): (77.6, 97.5, 500),
    ("synthetic15", "EMSCO"): (90, 66, 56.57),
    ("synthetic15", "Greedy Miser"): (81.2, 100, 75.7),
    ("synthetic15", "CSTC"): (85.3, 100, 61.3),
    ("synthetic15", "CaCT LASSO"): (92.4, 52.3, 60),
    ("synthetic15", "CO-T"): (91.2, 58.5, 79.7),
}

# Sizes of the exact fronts, ties included.
FRONT_SIZES = {
    ("heart", 2): 24,
    ("heart", 3): 28,
    ("heart", 4): 33,
    ("credit", 2): 47,
    ("credit", 3): 141,
    ("credit", 4): 171,
    ("pima", 2): 18,
    ("pima", 3): 42,
    ("pima", 4): 65,
}

# GDFS on Spambase, one run of its authors' notebook: accuracy % at a number of features.
GDFS = {4: 88.6, 10: 91.6, 15: 93.5, 25: 93.5}
