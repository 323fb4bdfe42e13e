// Redis away, full, or replaced by its replica.
import { testFaults } from './short.ts';

testFaults('4', '14', '6 cluster replicated');
