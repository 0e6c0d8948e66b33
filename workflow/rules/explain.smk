# Needs: the environment, the user's own case files (config key `cases`). Makes: results/explain/*.json, one a case.


rule explain:
    input:
        expand("results/explain/{case}.json", case=CASES),


rule explain_case:
    input:
        "results/environment.json",
        package("explain"),
        package("debug"),
        package("minify"),
        STEP_CODE,
        # The case's own file: editing it runs the case again.
        lookup(dpath="{case}", within=CASE_FILES),
    output:
        "results/explain/{case}.json",
    log:
        "results/logs/explain/{case}.log",
    wildcard_constraints:
        case="|".join(CASES) or "(?!)",
    threads: workflow.cores
    params:
        case=lookup(dpath="{case}", within=CASES),
        settings=[
            one for one in STEP_SETTINGS if one.startswith(("--preset", "--seed"))
        ],
    shell:
        "cpulab explain {params.case:q} --record {params.settings:q}"
