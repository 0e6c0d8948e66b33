# Needs: the environment, the model. Makes: results/profile/*.json: op tables, traces and fused kernels.


rule profile:
    input:
        expand("results/profile/{case}.json", case=PROFILE_CASES),


rule profile_case:
    input:
        "results/environment.json",
        "results/model/weights.json",
        f"{LIBRARY}/models.py",
        package("profile"),
        STEP_CODE,
    output:
        "results/profile/{case}.json",
    log:
        "results/logs/profile/{case}.log",
    wildcard_constraints:
        case="|".join(PROFILE_CASES),
    threads: workflow.cores
    params:
        settings=STEP_SETTINGS,
    shell:
        "cpulab profile {wildcards.case} {params.settings:q}"
