# /// script
# [tool.marimo.display]
# theme = "system"      # light or dark, as the reader's screen is
# ///
"""Lesson 5: devices that see different data learn different models."""

import marimo

app = marimo.App(width="medium", app_title="5. Clusters and divergence", css_file="lessons.css")


@app.cell(hide_code=True)
def _():
    import marimo as mo
    import numpy as np

    from netsim import load_scenario
    from netsim.lab.curves import lines, matrix
    from netsim.lab.widgets import controls, slider
    from netsim.learning.clustering import ari, cluster_devices
    from netsim.learning.learner import open_learner
    from netsim.selection.divergence import distances

    return (
        ari, cluster_devices, controls, distances, lines, load_scenario, matrix, mo, np, open_learner, slider,
    )


@app.cell(hide_code=True)
def _(mo):
    mo.md(r"""
    # 5. Non-iid data, clusters and divergence

    24 phones hold 50 handwritten digits each. A share $\sigma$ of a phone's digits are of **one** class. Each starts
    from the same model and trains on its own digits only. The base station never sees the digits. Can it tell from the
    uploaded models who holds what?
    """)
    return


@app.cell(hide_code=True)
def _(controls, slider):
    shares = [0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0]
    sigma = slider("share of the majority class (sigma)", shares, 0.8, debounce=True)
    passes = slider("local passes over the data", range(1, 11), 5, debounce=True)
    controls(sigma, passes)
    return passes, sigma


@app.cell(hide_code=True)
def _(ari, cluster_devices, distances, load_scenario, np, open_learner, passes, sigma):
    scenario = load_scenario("quickstart", [
        f"learning.partition.sigma={sigma.value}", f"learning.local_iterations={passes.value}"])
    everybody = np.arange(scenario.size)
    with open_learner(scenario, seed=1, workers=1) as learner:
        start = learner.initial_weights()
        training = learner.train(1, start, everybody.tolist())
        models = np.stack([training.update(device).weights for device in everybody])
        average = models.mean(axis=0)
        accuracy_alone = np.mean([learner.evaluate(model).accuracy for model in models[::4]])
        accuracy_average = learner.evaluate(average).accuracy
        counts, majority, layers = learner.label_counts, learner.majority, learner.layers
    clusters = cluster_devices(models, layers, clusters=10)
    divergence = distances(models, everybody, average)
    agreement = ari(clusters.labels, majority)
    return accuracy_alone, accuracy_average, agreement, clusters, counts, divergence, majority


@app.cell(hide_code=True)
def _(accuracy_alone, accuracy_average, agreement, mo):
    mo.md(f"""
    After one round of training, a single phone's model gets **{accuracy_alone:.0%}** of the test digits right, the
    mean of all models **{accuracy_average:.0%}**. K-means on the last layer's weights finds groups that agree with the
    majority classes to **{agreement:.2f}** (adjusted Rand index: 1 is the same grouping, 0 is chance).
    """)
    return


@app.cell(hide_code=True)
def _(clusters, counts, majority, matrix, mo, np):
    order = np.lexsort((majority, clusters.labels))
    _names = [f"phone {device}, cluster {clusters.labels[device]}" for device in order]
    mo.Html(matrix(counts[order], _names, [str(digit) for digit in range(10)], across="who holds which digits").svg())
    return


@app.cell(hide_code=True)
def _(divergence, lines, mo, np):
    _far = {"how far a phone's model is from the mean": np.sort(divergence)[::-1]}
    mo.Html(lines(np.arange(1, len(divergence) + 1), _far, across="phones, the farthest first", up="divergence").svg())
    return


@app.cell(hide_code=True)
def _(mo):
    mo.md("## Questions")
    return


@app.cell(hide_code=True)
def _(mo):
    mo.accordion({
        "How small may sigma be until the clusters no longer match the classes? Why so small?": mo.md("""
        Down to 0.2 they match well; at 0.1 no class is in the majority any more, and the match is chance. The first
        thing that a network learns is **which classes are frequent**, long before it can tell a three from an eight,
        and it writes that into its last layer: a row of weights a class, the frequent ones pushed up, the others down.
        Ten sevens among 50 digits are enough to be seen.
        """),
        "The mean of bad models is better than each of them. Why take clusters into account at all, then?": mo.md("""
        Because a round takes only some devices. If the cohort happens to miss a class, the mean forgets it a little.
        Taking some devices **from each cluster** makes sure that all classes are heard in every round.
        `netsim run quickstart` does that: `selection.method = "divergence"`.
        """),
        "Divergence selection takes the device whose last upload is farthest off. Which is that?": mo.md("""
        Mostly the one that was not chosen for longest: its upload is stale, and the global model has moved on. So the
        method is nearly round-robin inside a cluster. The honest comparison is `cluster-round-robin`, which comes with
        netsim.
        """),
    })
    return


if __name__ == "__main__":
    app.run()
