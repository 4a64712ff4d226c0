"""The virtual clock: discrete-event simulation of clients that differ in speed, drop out and come back.

The modules::

    settings       Clock: delays, deadline and how many events are recorded
    schedule       the event queue: which client works when, without what it computes
    event_loop     simulate_async's loop: the next arrival, its staleness, the buffer, aggregation
    round_clock    how long synchronous rounds take, with a deadline or without
    events         what clients did when, recorded for timelines
"""
