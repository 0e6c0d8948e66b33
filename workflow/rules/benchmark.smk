# Needs: the environment, the model. Makes: results/benchmark/*.json: raw samples of eager and Inductor, interleaved.


rule benchmark:
    input:
        expand("results/benchmark/{case}.json", case=BENCHMARK_CASES),


rule benchmark_case:
    input:
        "results/environment.json",
        "results/model/weights.json",
        f"{LIBRARY}/cases.py",
        f"{LIBRARY}/models.py",
        f"{LIBRARY}/statistics.py",
        package("measure"),
        STEP_CODE,
    output:
        "results/benchmark/{case}.json",
    log:
        "results/logs/benchmark/{case}.log",
    wildcard_constraints:
        case="|".join(BENCHMARK_CASES),
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab benchmark {wildcards.case} {params.settings:q}"
