"""Engines: they run the rules of an algorithm over the clients of a problem, and all must agree with ``reference``.

An engine owns the loop, the randomness, the clock and the placement; the algorithm owns the mathematics. The modules::

    reference       plain loops, one client at a time: slow, and the definition of what is right
    simulate        synchronous rounds on one machine: compiled clients on a thread pool
    asynchronous    simulate_async: uploads one by one on a virtual clock
    cluster         simulate_cluster: the rounds of simulate on workers of a Ray cluster, with the same bits
    result          what every engine returns, and how it is saved
    shared/         what engines have in common: client executor, weighted sums, evaluation, randomness, errors
    workers/        the workers of a cluster: placement, states, recovery
    clock/          virtual time: schedule, event loop, duration of rounds, recorded events

The deployment over Flower, which is an engine too, is ``feddr.flower``.
"""
