"""What engines have in common: from the task of one client to the weighted sum, the metrics and the errors.

The modules::

    rounds              the rounds of a synchronous run, from the first draw to the result
    server              the server's side of a run: state, aggregation, evaluation
    run                 one round: clients compute, uploads are checked and aggregated, states are committed
    executor            lets the clients of a round do their tasks, on a thread pool
    compiled_clients    local updates as compiled XLA calls; plain_clients the same in plain loops
    prefetch            batches of the next round, drawn while threads would be idle
    shards              64 fixed blocks of clients, and the tree by which sums over them are ordered
    aggregation         weighted sums of uploads in float64, by shard; bytes of a message
    client_store        client states: in memory up to a budget, then in a memory-mapped file
    recorder            the history of a run: a row for each evaluation
    evaluation          metrics at xbar, and personalised metrics apart from them; plain_evaluation in plain steps
    pieces              how passes over samples are divided, by shard
    means               from sums over samples to metrics
    measured            the further metrics that a run was asked for, and those of each client
    privacy             a site's model is released before the rules see it; what the rounds cost, and the budget
    stopper             ends a run early, where it was asked to
    randomness          a deterministic generator for each (seed, client, update) and (seed, round)
    progress            words for a round, and a bar in terminals and notebooks
    state               RunState, and the Progress that callbacks see
    errors              DivergedError and warnings
    diagnosis           which client, which local step and which cause a NaN or an infinity has
    options             options of every engine, validated
"""
