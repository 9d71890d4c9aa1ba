"""The radio cell as a discrete-event simulation: work wears off at rates, the band is shared, batteries run out."""
