"""The command line ``feddr``: one module for each command, and what they share.

The modules::

    main             the list of commands, and errors as one line with an exit code
    example          feddr example
    run              feddr run, feddr compare; run_seeds the latter with several seeds, run_arguments their options
    theory           feddr theory; theory_answer formats its answer
    data             feddr data
    tune             feddr tune; tune_verdict says how a search ended
    reproduce        feddr reproduce
    predict          feddr predict
    report           feddr report
    deploy           feddr deploy certs, check, server, node; deploy_run has example, run, audit
    progress         progress bars, and the table of results
    console          consoles, exit codes, errors in one line, options, and Ctrl-C
"""
