-- run demographics/icustay_times demographics/icustay_hourly demographics/weight_durations measurement/urine_output
-- run organfailure/kdigo_uo measurement/bg measurement/chemistry measurement/complete_blood_count measurement/enzyme
-- run measurement/gcs measurement/oxygen_delivery measurement/urine_output_rate measurement/ventilator_setting
-- run measurement/vitalsign medication/antibiotic medication/dobutamine medication/dopamine medication/epinephrine
-- run medication/milrinone medication/norepinephrine medication/phenylephrine medication/vasopressin treatment/crrt
-- run treatment/rrt treatment/ventilation organfailure/kdigo_creatinine score/sofa sepsis/suspicion_of_infection
-- run organfailure/kdigo_stages medication/vasoactive_agent medication/norepinephrine_equivalent_dose
-- sofa: its six parts at the full hour
SELECT n, respiration_24hours, coagulation_24hours, liver_24hours, cardiovascular_24hours, cns_24hours, renal_24hours
FROM cuts JOIN mimiciv_derived.sofa ON stay_id = stay AND endtime = now
-- gcs: the lowest of a day, and how many of its rows lack a part
SELECT n, min(gcs), count(*) - count(gcs_motor + gcs_verbal + gcs_eyes)
FROM cuts JOIN mimiciv_derived.gcs ON stay_id = stay AND charttime > now - INTERVAL 24 HOUR GROUP BY n
-- quick: highest breaths and lowest systolic pressure of a day
SELECT n, max(resp_rate), min(sbp)
FROM cuts JOIN mimiciv_derived.vitalsign ON stay_id = stay AND charttime > now - INTERVAL 24 HOUR GROUP BY n
-- creatinine: the newest stage, the lowest of 7 days, and when
SELECT n, aki_stage_creat, creat_low_past_7day, charttime
FROM cuts JOIN mimiciv_derived.kdigo_stages ON stay_id = stay AND creat IS NOT NULL
QUALIFY row_number() OVER (PARTITION BY n ORDER BY charttime DESC) = 1
-- urine: the newest stage, its rates and the hours that they cover, and when
SELECT n, s.aki_stage_uo, u.uo_rt_6hr, u.uo_rt_12hr, u.uo_rt_24hr, u.uo_tm_12hr, u.uo_tm_24hr, u.charttime,
       u.charttime <= i.intime + INTERVAL 6 HOUR
FROM cuts JOIN mimiciv_derived.kdigo_uo u ON u.stay_id = stay JOIN mimiciv_icu.icustays i ON i.stay_id = stay
JOIN mimiciv_derived.kdigo_stages s ON s.stay_id = stay AND s.charttime = u.charttime
QUALIFY row_number() OVER (PARTITION BY n ORDER BY u.charttime DESC) = 1
-- vasopressors: what runs now
SELECT n, max(norepinephrine_equivalent_dose) FROM cuts JOIN mimiciv_derived.norepinephrine_equivalent_dose
ON stay_id = stay AND starttime <= now AND endtime > now GROUP BY n
-- ventilation: the newest status of 14 hours
SELECT n, arg_max(ventilation_status, starttime) FROM cuts JOIN mimiciv_derived.ventilation
ON stay_id = stay AND endtime >= now - INTERVAL 14 HOUR GROUP BY n
-- suspicion: the newest of the admission, and its antibiotic
SELECT n, max(suspected_infection_time), arg_max(antibiotic, suspected_infection_time)
FROM cuts JOIN mimiciv_icu.icustays i ON i.stay_id = stay
JOIN mimiciv_derived.suspicion_of_infection s ON s.hadm_id = i.hadm_id WHERE suspected_infection = 1 GROUP BY n
-- antibiotics: the names of all of the admission
SELECT n, list(antibiotic) FROM cuts JOIN mimiciv_icu.icustays i ON i.stay_id = stay
JOIN mimiciv_derived.antibiotic a ON a.hadm_id = i.hadm_id GROUP BY n
-- sofas: when SOFA was 2 or more
SELECT n, list(endtime) FROM cuts JOIN mimiciv_derived.sofa ON stay_id = stay AND endtime <= now AND sofa_24hours >= 2
GROUP BY n
-- do: the concepts of the first day, with the stay moved so that their window is the last 24 hours
UPDATE mimiciv_icu.icustays SET intime = cuts.now - INTERVAL 18 HOUR + INTERVAL 1 SECOND FROM cuts WHERE n = subject_id
-- run measurement/blood_differential measurement/coagulation firstday/first_day_bg_art firstday/first_day_gcs
-- run firstday/first_day_lab firstday/first_day_rrt firstday/first_day_vitalsign organfailure/meld score/sirs
-- sirs: its four criteria
SELECT n, temp_score, heart_rate_score, resp_score, wbc_score FROM cuts JOIN mimiciv_derived.sirs ON stay_id = stay
-- meld: with what it was made of, and whether dialysis went on
SELECT n, meld, dialysis_active, creatinine_max, bilirubin_total_max, inr_max, sodium_min
FROM cuts JOIN mimiciv_derived.meld m ON m.stay_id = stay JOIN mimiciv_derived.first_day_rrt r ON r.stay_id = stay
