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
    from netsim.lab import pages
    from netsim.lab.curves import lines, matrix
    from netsim.lab.widgets import controls, slider
    from netsim.learning.clustering import ari, cluster_devices
    from netsim.learning.local_training import open_trainer
    from netsim.selection.model_based import distances

    return (
        ari, cluster_devices, controls, distances, lines, load_scenario, matrix, mo, np, open_trainer, pages,
        slider,
    )


@app.cell(hide_code=True)
def _(pages):
    lesson = pages.Lesson(
        5, minutes=30,
        aim="You can say what a base station learns from models alone about who holds which data, and what it is good "
            "for.",
        steps=(
            pages.Step({"local passes over the data": 10},
                       "Longer training: the mean becomes far better than any of the models that it is made of."),
            pages.Step({"share of the majority class (sigma)": 0.1},
                       "No class is in the majority: the groups are chance, and all models are close to each other."),
        ),
        exercise=pages.Exercise(
            "At most **half** of a phone's digits are of one class. Train so that the mean of the models gets **60 %** "
            "right, and the groups still agree with the classes to **0.85**.",
            {"share of the majority class (sigma)": 0.5, "local passes over the data": 10}),
        leads="Back to time and energy: the plan that divides the band was exact so far. The one in print is not.")
    pages.top(lesson)
    return (lesson,)


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
    sigma = slider("share of the majority class (sigma)", [round(0.1 * tenths, 1) for tenths in range(1, 11)], 0.8,
                   debounce=True)
    passes = slider("local passes over the data", range(1, 11), 5, debounce=True)
    sliders = controls(sigma, passes)
    sliders
    return passes, sigma, sliders


@app.cell(hide_code=True)
def _(ari, cluster_devices, distances, load_scenario, np, open_trainer):
    from functools import cache

    @cache
    def trained(sigma, passes):
        """Accuracy of a phone's model and of the mean, clusters, their agreement, counts, majority, divergence."""
        scenario = load_scenario("quickstart", [
            f"learning.partition.sigma={sigma}", f"learning.local_epochs={passes}"])
        everybody = np.arange(scenario.size)
        with open_trainer(scenario, seed=1, workers=1) as learner:
            training = learner.train(1, learner.initial_weights(), everybody.tolist())
            models = np.stack([training.update(device).weights for device in everybody])
            average = models.mean(axis=0)
            alone = float(np.mean([learner.evaluate(model).accuracy for model in models[::4]]))
            together = learner.evaluate(average).accuracy
            counts, majority, layers = learner.label_counts, learner.majority, learner.layers
        clusters = cluster_devices(models, layers, clusters=10)
        agreement = ari(clusters.labels, majority)
        return alone, together, clusters, agreement, counts, majority, distances(models, everybody, average)

    return (trained,)


@app.cell(hide_code=True)
def _(mo, passes, sigma, trained):
    accuracy_alone, accuracy_average, clusters, agreement, counts, majority, divergence = trained(
        sigma.value, passes.value)
    now = (f"After one round of training, a single phone's model gets **{accuracy_alone:.0%}** of the test digits "
           f"right, the mean of all models **{accuracy_average:.0%}**. K-means on the last layer's weights finds "
           f"groups that agree with the majority classes to **{agreement:.2f}** (adjusted Rand index: 1 is the same "
           "grouping, 0 is chance).")
    mo.md(now)
    return accuracy_average, agreement, clusters, counts, divergence, majority, now


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
def _(pages):
    questions = (
        pages.Question("With sigma 0.3 and **ten** passes, a phone's model alone still gets most digits wrong. How "
                       "many does the mean of all 24 models get right?",
                       ("No more: a mean of bad models is bad", "More, but less than half", "More than half")),
        pages.Question("Sigma 0.2: ten of a phone's 50 digits are of one class. After a **single** pass a model is "
                       "right in 10 % of all cases, as if it guessed. Can the base station tell from such models who "
                       "holds what?",
                       ("No: there is nothing in them yet (agreement below 0.2)", "Partly (0.2 to 0.6)",
                        "Yes (above 0.6)")),
        pages.Question("Divergence selection takes from each cluster the device whose last upload is farthest from the "
                       "global model. Which one is that, mostly?",
                       ("The one with the rarest data", "The one that was not chosen for longest",
                        "The one with the most data")),
    )
    predictions = pages.ask(questions)
    return predictions, questions


@app.cell(hide_code=True)
def _(pages, predictions, questions, trained):
    def _mean_of_models():
        _alone, _mean = trained(0.3, 10)[:2]
        return pages.Outcome(questions[0].choices[0 if _mean <= 1.1 * _alone else 1 if _mean < 0.5 else 2], f"""
        Alone: {_alone:.0%}; the mean: {_mean:.0%}. Each model pushes its own class up and the others down; in the mean
        the pushes that contradict each other cancel, and what all have learned about strokes and loops is left. But a
        round takes only some devices. If the cohort happens to miss a class, the mean forgets it a little. Taking some
        devices **from each cluster** makes sure that all classes are heard in every round: `netsim run quickstart` does
        that, with `selection.method = "divergence"`.
        """)

    def _after_one_pass():
        _alone, _, _, _agreement, *_ = trained(0.2, 1)
        return pages.Outcome(questions[1].choices[0 if _agreement < 0.2 else 1 if _agreement < 0.6 else 2], f"""
        The groups agree with the classes to {_agreement:.2f}, with models that are right in {_alone:.0%} of all cases.
        The first thing that a network learns is **which classes are frequent**, long before it can tell a three from an
        eight, and it writes that into its last layer: a row of weights a class, the frequent ones pushed up, the others
        down. It also means that models give away what phones would rather keep to themselves.
        """)

    def _farthest():
        return pages.Outcome(questions[2].choices[1], """
        Its upload is stale: the global model has moved on since. So the method is nearly round-robin inside a cluster.
        The honest comparison is `cluster-round-robin`, which comes with netsim.
        """)

    answers = (_mean_of_models, _after_one_pass, _farthest)
    pages.replies(questions, predictions, answers)
    return (answers,)


@app.cell(hide_code=True)
def _(lesson, pages, sliders):
    pages.exercise(lesson, sliders)
    return


@app.cell(hide_code=True)
def _(accuracy_average, agreement, pages, sigma):
    conditions = (
        pages.Condition("sigma is 0.5 at most", sigma.value <= 0.5, f"{sigma.value}"),
        pages.Condition("the mean of the models gets 60 % right", accuracy_average >= 0.6,
                        f"{100 * accuracy_average:.1f} %"),
        pages.Condition("groups agree with the classes to 0.85", agreement >= 0.85, f"{agreement:.2f}"),
    )
    pages.check(conditions)
    return (conditions,)


@app.cell(hide_code=True)
def _(lesson, pages):
    pages.end(lesson)
    return


if __name__ == "__main__":
    app.run()
