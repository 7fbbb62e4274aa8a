"""What pods will use, from what they used: a decaying histogram, and naive forecasts that it is held against.

    UsageHistory → forecast_requests → workload → Requests;  UsageHistory → held_out_errors → errors side by side

Pure, and without chance: the same history gives the same forecast.
"""
