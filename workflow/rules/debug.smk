# Needs: the environment. Makes: results/debug/*.json: the tutorial's program, healthy and with its two faults injected.


rule debug:
    input:
        expand("results/debug/{case}.json", case=DEBUG_CASES),


rule debug_case:
    input:
        "results/environment.json",
        f"{LIBRARY}/cases.py",
        package("debug"),
        STEP_CODE,
    output:
        "results/debug/{case}.json",
    log:
        "results/logs/debug/{case}.log",
    wildcard_constraints:
        case="|".join(DEBUG_CASES),
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab debug {wildcards.case} {params.settings:q}"
