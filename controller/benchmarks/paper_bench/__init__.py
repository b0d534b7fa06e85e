"""The paper's experiments in its order, by the benchmarks that exist, and one page of what they found."""
