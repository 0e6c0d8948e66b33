# Needs: the environment, the model. Makes: results/roofline/*.json: the machine's roofs, and what lies under them.


rule roofline:
    input:
        expand("results/roofline/{case}.json", case=ROOFLINE_CASES),


rule roofline_case:
    input:
        "results/environment.json",
        "results/model/weights.json",
        f"{LIBRARY}/cases.py",
        f"{LIBRARY}/models.py",
        f"{LIBRARY}/statistics.py",
        f"{LIBRARY}/roofline/stream.cpp",
        package("roofline"),
        package("measure"),
        STEP_CODE,
    output:
        "results/roofline/{case}.json",
    log:
        "results/logs/roofline/{case}.log",
    wildcard_constraints:
        case="|".join(ROOFLINE_CASES),
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab roofline {wildcards.case} {params.settings:q}"
