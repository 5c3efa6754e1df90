"""netcal: calibration errors in bins of equal width and of equal count."""

from netcal.metrics import ACE, ECE

REQUIREMENTS = ("netcal==1.4.0", "torch==2.15.0", "numpy==2.4.6")

QUANTITIES = {
    "calibration_error": lambda p, y: 100 * ECE(15).measure(p, y),
    "calibration_error:ACE": lambda p, y: 100 * ACE(15).measure(p, y),
    "adaptive_calibration_error": lambda p, y: 100 * ECE(15, equal_intervals=False).measure(p, y),
}
