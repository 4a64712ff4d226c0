"""Run folders: what ``feddr run`` and ``compare`` write, and trackers that send rows elsewhere.

The modules::

    folder      the layout of a run folder: config, results, comparison, checkpoints, its lock
    compare     several methods and seeds on one problem: feddr.compare
    stored      the files for reports: participation, samples of clients, live rows
    progress    what views of progress share: pace, time left, lines now and then
    trackers    callbacks that log rows to TensorBoard and MLflow
"""
