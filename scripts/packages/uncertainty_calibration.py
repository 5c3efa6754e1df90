"""uncertainty-calibration: calibration errors by the authors of Verified Uncertainty Calibration."""

import calibration

REQUIREMENTS = ("uncertainty-calibration==0.1.4", "numpy==2.4.6")

QUANTITIES = {
    "calibration_error": lambda p, y: 100 * calibration.get_ece(p, y),
    "calibration_error:get_calibration_error": lambda p, y: 100 * calibration.get_calibration_error(p, y),
    "adaptive_calibration_error": lambda p, y: 100 * calibration.get_ece_em(p, y),
}
