"""How computations get fast with XLA: batching of clients, kernels, the compilation cache, the thread pool.

What is decided here was measured (docs/PERFORMANCE.md). The modules::

    batching             which clients share a compiled call, and the compiler's options
    kernel               a whole loop of local steps as one kernel
    rewrite              any loss, rewritten where a CPU computes it faster in another form
    convolution          convolutions as products of matrices, pooling as comparisons
    winograd             convolutions with fewer multiplications
    dense                a fully connected layer with a gradient that compiles well for small batches
    thread_pool          the threads that compute clients side by side
    compilation_cache    compiled code kept on disk between runs
"""
